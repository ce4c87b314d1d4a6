"""One file for each rule of sets."""
