"""The prompt functions of three dialects, with the signatures of their documents and without a workspace."""
