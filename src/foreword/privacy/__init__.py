"""Privacy: find, export and erase all data of one person, and verify the erasure with a second search."""
