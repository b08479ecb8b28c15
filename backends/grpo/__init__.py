"""Group-relative policy optimisation in torch: losses, masks, schedules. Every module is imported by name; this one imports none."""
