"""What is paid for, and how."""
