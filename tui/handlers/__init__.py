"""What actions and messages of the app do."""
