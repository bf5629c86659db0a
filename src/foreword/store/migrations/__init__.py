"""The steps by which the schema came to be what it is."""
