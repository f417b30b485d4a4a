// Mocks as a person writes them: which steps take one, and one put into the text for a step. It is pure; the service checks what is sent.
import type { StepBook } from "../../../machines/index.js";

export function mockable(steps: readonly object[], types: StepBook): string[] {
  const found = steps as readonly { readonly id?: unknown; readonly type?: unknown }[];
  return found.filter(({ type }) => types.get(String(type))?.isMocked).map(({ id }) => String(id));
}

export type Mocks = Readonly<Record<string, unknown>>;

export const FAILING = [{ error: { code: "failed", message: "as the mock says", retryable: false } }];
export const ANSWERING = [{ output: {} }];

/** The text with a mock for the step. What it says about other steps stays. */
export const withMock = (mocks: Mocks, step: string, mock: unknown): string =>
  JSON.stringify({ ...mocks, [step]: mock }, null, 2);
