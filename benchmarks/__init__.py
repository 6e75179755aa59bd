"""Heavy studies: measured beside a peer or a limit, in one run; each exits with 1 when a figure is missed."""
