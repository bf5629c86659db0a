"""The channels: each a small class behind the protocol of `foreword.gateway.channel`."""
