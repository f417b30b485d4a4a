// The meta-schema of JSON Schema 2020-12 and its vocabularies (json-schema.org, BSD-3-Clause), without titles and comments: what a schema must
// look like, and what a `$ref` to one of their addresses finds. Nothing is fetched. Its formats are left out, because formats assert here: RE2
// decides what a pattern is, and a reference is usable if it leads to a schema.
import type { JsonObject } from "../values/json.js";

export const META_SCHEMA = "https://json-schema.org/draft/2020-12/schema";

export const META_SCHEMAS: readonly JsonObject[] = [
  {
    $id: "https://json-schema.org/draft/2020-12/schema",
    $dynamicAnchor: "meta",
    allOf: [
      { $ref: "meta/core" },
      { $ref: "meta/applicator" },
      { $ref: "meta/unevaluated" },
      { $ref: "meta/validation" },
      { $ref: "meta/meta-data" },
      { $ref: "meta/format-annotation" },
      { $ref: "meta/content" },
    ],
    type: ["object", "boolean"],
    properties: {
      definitions: { type: "object", additionalProperties: { $dynamicRef: "#meta" } },
      dependencies: {
        type: "object",
        additionalProperties: { anyOf: [{ $dynamicRef: "#meta" }, { $ref: "meta/validation#/$defs/stringArray" }] },
      },
      $recursiveAnchor: { $ref: "meta/core#/$defs/anchorString" },
      $recursiveRef: { $ref: "meta/core#/$defs/uriReferenceString" },
    },
  },
  {
    $id: "https://json-schema.org/draft/2020-12/meta/applicator",
    $dynamicAnchor: "meta",
    type: ["object", "boolean"],
    properties: {
      prefixItems: { $ref: "#/$defs/schemaArray" },
      items: { $dynamicRef: "#meta" },
      contains: { $dynamicRef: "#meta" },
      additionalProperties: { $dynamicRef: "#meta" },
      properties: { type: "object", additionalProperties: { $dynamicRef: "#meta" } },
      patternProperties: { type: "object", additionalProperties: { $dynamicRef: "#meta" } },
      dependentSchemas: { type: "object", additionalProperties: { $dynamicRef: "#meta" } },
      propertyNames: { $dynamicRef: "#meta" },
      if: { $dynamicRef: "#meta" },
      then: { $dynamicRef: "#meta" },
      else: { $dynamicRef: "#meta" },
      allOf: { $ref: "#/$defs/schemaArray" },
      anyOf: { $ref: "#/$defs/schemaArray" },
      oneOf: { $ref: "#/$defs/schemaArray" },
      not: { $dynamicRef: "#meta" },
    },
    $defs: { schemaArray: { type: "array", minItems: 1, items: { $dynamicRef: "#meta" } } },
  },
  {
    $id: "https://json-schema.org/draft/2020-12/meta/content",
    $dynamicAnchor: "meta",
    type: ["object", "boolean"],
    properties: {
      contentEncoding: { type: "string" },
      contentMediaType: { type: "string" },
      contentSchema: { $dynamicRef: "#meta" },
    },
  },
  {
    $id: "https://json-schema.org/draft/2020-12/meta/core",
    $dynamicAnchor: "meta",
    type: ["object", "boolean"],
    properties: {
      $id: { $ref: "#/$defs/uriReferenceString", pattern: "^[^#]*#?$" },
      $schema: { $ref: "#/$defs/uriString" },
      $ref: { $ref: "#/$defs/uriReferenceString" },
      $anchor: { $ref: "#/$defs/anchorString" },
      $dynamicRef: { $ref: "#/$defs/uriReferenceString" },
      $dynamicAnchor: { $ref: "#/$defs/anchorString" },
      $vocabulary: {
        type: "object",
        propertyNames: { $ref: "#/$defs/uriString" },
        additionalProperties: { type: "boolean" },
      },
      $comment: { type: "string" },
      $defs: { type: "object", additionalProperties: { $dynamicRef: "#meta" } },
    },
    $defs: {
      anchorString: { type: "string", pattern: "^[A-Za-z_][-A-Za-z0-9._]*$" },
      uriString: { type: "string" },
      uriReferenceString: { type: "string" },
    },
  },
  {
    $id: "https://json-schema.org/draft/2020-12/meta/format-annotation",
    $dynamicAnchor: "meta",
    type: ["object", "boolean"],
    properties: { format: { type: "string" } },
  },
  {
    $id: "https://json-schema.org/draft/2020-12/meta/meta-data",
    $dynamicAnchor: "meta",
    type: ["object", "boolean"],
    properties: {
      title: { type: "string" },
      description: { type: "string" },
      deprecated: { type: "boolean" },
      readOnly: { type: "boolean" },
      writeOnly: { type: "boolean" },
      examples: { type: "array", items: true },
    },
  },
  {
    $id: "https://json-schema.org/draft/2020-12/meta/unevaluated",
    $dynamicAnchor: "meta",
    type: ["object", "boolean"],
    properties: { unevaluatedItems: { $dynamicRef: "#meta" }, unevaluatedProperties: { $dynamicRef: "#meta" } },
  },
  {
    $id: "https://json-schema.org/draft/2020-12/meta/validation",
    $dynamicAnchor: "meta",
    type: ["object", "boolean"],
    properties: {
      type: {
        anyOf: [
          { $ref: "#/$defs/simpleTypes" },
          { type: "array", items: { $ref: "#/$defs/simpleTypes" }, minItems: 1, uniqueItems: true },
        ],
      },
      const: true,
      enum: { type: "array", items: true },
      multipleOf: { type: "number", exclusiveMinimum: 0 },
      maximum: { type: "number" },
      exclusiveMaximum: { type: "number" },
      minimum: { type: "number" },
      exclusiveMinimum: { type: "number" },
      maxLength: { $ref: "#/$defs/nonNegativeInteger" },
      minLength: { $ref: "#/$defs/nonNegativeIntegerDefault0" },
      pattern: { type: "string" },
      maxItems: { $ref: "#/$defs/nonNegativeInteger" },
      minItems: { $ref: "#/$defs/nonNegativeIntegerDefault0" },
      uniqueItems: { type: "boolean" },
      maxContains: { $ref: "#/$defs/nonNegativeInteger" },
      minContains: { $ref: "#/$defs/nonNegativeInteger" },
      maxProperties: { $ref: "#/$defs/nonNegativeInteger" },
      minProperties: { $ref: "#/$defs/nonNegativeIntegerDefault0" },
      required: { $ref: "#/$defs/stringArray" },
      dependentRequired: { type: "object", additionalProperties: { $ref: "#/$defs/stringArray" } },
    },
    $defs: {
      nonNegativeInteger: { type: "integer", minimum: 0 },
      nonNegativeIntegerDefault0: { $ref: "#/$defs/nonNegativeInteger" },
      simpleTypes: { enum: ["array", "boolean", "integer", "null", "number", "object", "string"] },
      stringArray: { type: "array", items: { type: "string" }, uniqueItems: true },
    },
  },
];
