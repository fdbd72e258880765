"""What the user set: requests, cluster profiles, environment variables and the installation folder."""
