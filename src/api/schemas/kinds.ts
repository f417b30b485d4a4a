// The kinds of members that the resources are made of. The resources are in the other files of this folder.
import type { TSchema } from "typebox";
import * as Type from "typebox";

export const Uuid = Type.String({ format: "uuid" });
export const Time = Type.String({ format: "date-time" });
export const Text = Type.String();
export const Int = Type.Integer();
export const Bool = Type.Boolean();
export const Free = Type.Object({}, { additionalProperties: true });
export const opt = Type.Optional;
/** A member of a document that is returned as it was posted: null is as good as absent. */
export const orNull = <T extends TSchema>(schema: T) => opt(Type.Union([schema, Type.Null()]));
