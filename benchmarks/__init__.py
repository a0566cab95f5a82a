"""Figures of a running service, as ratios taken in one run; `README.md` says how."""
