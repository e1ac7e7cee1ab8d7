"""batch: jobs and cron jobs."""
