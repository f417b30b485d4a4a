// What the services of the trip take and give, as contracts: three reservations with their cancellations, a payment and a message.
import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

const Trip = Type.Object({ trip_id: Type.String() });
const Reservation = Type.Object({ reservation: Type.String() });
const Payment = Type.Object({ trip_id: Type.String(), amount: Type.Number() });
const Nothing = Type.Object({});

const reserving = { service: "travel", compensable: true, input: Trip, output: Reservation } as const;
const cancelling = { service: "travel", input: Reservation, output: Nothing } as const;

export const travel = {
  reserveHotel: defineAction({ name: "reserve_hotel", ...reserving }),
  cancelHotel: defineAction({ name: "cancel_hotel", ...cancelling }),
  reserveFlight: defineAction({ name: "reserve_flight", ...reserving }),
  cancelFlight: defineAction({ name: "cancel_flight", ...cancelling }),
  reserveCar: defineAction({ name: "reserve_car", ...reserving }),
  cancelCar: defineAction({ name: "cancel_car", ...cancelling }),
  charge: defineAction({ service: "travel", name: "charge", compensable: true, input: Payment, output: Nothing }),
  /** An undo without inputs of its own gets those of the step, and its output. */
  refund: defineAction({
    service: "travel",
    name: "refund",
    input: Type.Object({ inputs: Payment, output: Nothing }),
    output: Nothing,
  }),
  notify: defineAction({
    service: "travel",
    name: "notify",
    input: Type.Object({ trip_id: Type.String(), why: Type.String() }),
    output: Nothing,
  }),
};
