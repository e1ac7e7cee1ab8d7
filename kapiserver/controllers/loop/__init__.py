"""What every control loop uses: work queue, subscriptions, writes, events, leader election."""
