// The resources as JSON Schemas, for the OpenAPI document. The schemas of bodies are with their routes.
import { DEFINITION_RESOURCES } from "./schemas/definitions.js";
import { RUN_RESOURCES } from "./schemas/runs.js";
import { SERVICE_RESOURCES } from "./schemas/service.js";

/** The components of the OpenAPI document, by name. */
export const RESOURCES = { ...SERVICE_RESOURCES, ...RUN_RESOURCES, ...DEFINITION_RESOURCES };

export type Resource = keyof typeof RESOURCES;
