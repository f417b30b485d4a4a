// The trip: hotel, flight and car are reserved side by side, then the card is charged. An error undoes what was reserved, and the traveller is told.
import { saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { travel } from "./actions.js";

const retry = { maxAttempts: 3, initialBackoffMs: 20 };

export const trip = saga("travel", {
  name: "Book a trip",
  // The schema of the original checks less than the types say.
  input: Type.Unsafe<{ trip_id: string; amount: number }>({ type: "object", required: ["trip_id", "amount"] }),
})
  .tryCatch(
    "trip",
    (tried) =>
      tried
        .parallel("book", {
          hotel: (branch) =>
            branch.action("hotel", travel.reserveHotel, {
              inputs: ({ inputs }) => ({ trip_id: inputs.trip_id }),
              retry,
              undo: [travel.cancelHotel, ({ output }) => ({ reservation: output.reservation })],
            }),
          flight: (branch) =>
            branch.action("flight", travel.reserveFlight, {
              inputs: ({ inputs }) => ({ trip_id: inputs.trip_id }),
              retry,
              undo: [travel.cancelFlight, ({ output }) => ({ reservation: output.reservation })],
            }),
          car: (branch) =>
            branch.action("car", travel.reserveCar, {
              inputs: ({ inputs }) => ({ trip_id: inputs.trip_id }),
              retry,
              undo: [travel.cancelCar, ({ output }) => ({ reservation: output.reservation })],
            }),
        })
        .join("booked", { mode: "all" })
        .action("pay", travel.charge, {
          inputs: ({ inputs }) => ({ trip_id: inputs.trip_id, amount: inputs.amount }),
          undo: travel.refund,
        }),
    (caught) =>
      caught
        .action("tell", travel.notify, {
          inputs: ({ inputs, error }) => ({ trip_id: inputs.trip_id, why: error.code }),
        })
        .error("failed"),
    { rollback: true },
  )
  .end(
    ({ steps: { booked } }) => ({
      hotel: booked.hotel.reservation,
      flight: booked.flight.reservation,
      car: booked.car.reservation,
    }),
    { id: "confirmed" },
  );
