"""foreword.engine."""
