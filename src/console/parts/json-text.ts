// JSON that a person types: its value, or what is wrong with it in words. Whether the value makes sense is for the page and the service to say.

export interface Parsed {
  readonly value?: unknown;
  readonly fault?: string;
}

/** Empty text is `{}`. */
export function parseObject(text: string): Parsed {
  const { value, fault } = text.trim() === "" ? { value: {} } : parseJson(text);
  if (fault !== undefined) return { fault };
  return isObject(value)
    ? { value }
    : { fault: "This is JSON, but not an object: it must begin with { and end with }." };
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function parseJson(text: string): Parsed {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { fault: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}
