"""Write the catalog's rows from what upstream publishes (`llmbx catalog import`)."""
