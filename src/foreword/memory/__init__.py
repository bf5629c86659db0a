"""Memory: stores with one minimum trust each, a search that finds, and entries that know where they come from."""
