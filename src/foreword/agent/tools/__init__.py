"""foreword.agent.tools."""
