"""What requests do to streams: make, predict, answer, amend, calibrate."""
