"""Virtual queues, sampling designs and policies: from gains to a weighted cohort."""
