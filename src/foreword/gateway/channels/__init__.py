"""The channels: implementations of the protocol in `foreword.gateway.channel`."""
