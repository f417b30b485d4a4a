-- The worker's answer that an audit row is the outcome of: its repeat is recognised without a row of its own in run_commands.
ALTER TABLE "run_events" ADD COLUMN "command_id" uuid;
