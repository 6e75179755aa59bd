"""Whether verdicts are fair: no improvement that is none, no outlier believed, no load that is drift."""
