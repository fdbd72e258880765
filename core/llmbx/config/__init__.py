"""User configuration: requests, cluster profiles, environment variables and the installation folder."""
