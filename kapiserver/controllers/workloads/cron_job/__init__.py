"""The CronJob controller: `plan` and `times` are its pure core, `controller` is its shell."""
