"""Who may read what, by subscription or by purchase."""
