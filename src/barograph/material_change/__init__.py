"""The entitled comparison of the latest two recorded versions of a stance."""
