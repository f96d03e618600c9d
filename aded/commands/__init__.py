"""The commands: a file for each verb of `aded`, named after it; those about datastores lie in `datastore/`."""
