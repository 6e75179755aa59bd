"""The papers' tables and figures, made again in the laboratory, where the truth is known."""
