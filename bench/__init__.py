"""One file per figure, each with its baseline in the same run."""
