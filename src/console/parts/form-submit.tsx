// What both kinds of form have: what they are asked for, and their end. The fields are in the other files.
import type { ReactNode, SyntheticEvent } from "react";
import type { Problem } from "../browser/resources.js";
import type { Judge } from "./form-validator.js";

export interface SchemaFormProps {
  /** JSON Schema 2020-12. Absent or empty: any JSON. */
  readonly schema?: object | undefined;
  /** Judges the value instead of the schema, which is what is drawn. */
  readonly judge?: Judge;
  /** What the form begins with. */
  readonly value?: unknown;
  readonly onSubmit: (value: unknown) => void;
  readonly submitLabel: string;
  /** A second way to submit the same value. */
  readonly other?: { readonly label: string; readonly isDangerous?: true; readonly onSubmit: (value: unknown) => void };
  /** The `details` of a refusal. */
  readonly problems?: readonly Problem[] | undefined;
  /** Where the request that was refused has the value. Default: `$`. */
  readonly at?: string;
  readonly isBusy?: boolean;
  /** The label of the JSON text, where there is no schema. */
  readonly label?: string;
  /** Above the buttons: what the page asks for besides. */
  readonly children?: ReactNode;
}

export interface DrawnProps extends SchemaFormProps {
  readonly schema: object;
  readonly onChange: (value: unknown) => void;
}

export const Submit = ({ children, submitLabel, other, isBusy = false }: SchemaFormProps) => (
  <>
    {children}
    <div className="row">
      <button type="submit" className="primary" disabled={isBusy}>
        {submitLabel}
      </button>
      {other && (
        <button type="submit" className={other.isDangerous ? "danger" : undefined} name={OTHER} disabled={isBusy}>
          {other.label}
        </button>
      )}
    </div>
  </>
);

const OTHER = "other";

/** Submits by the button that was pressed. */
export function submitted(props: SchemaFormProps, event: SyntheticEvent, value: unknown): void {
  const { submitter } = event.nativeEvent as SubmitEvent;
  const isOther = submitter instanceof HTMLButtonElement && submitter.name === OTHER;
  (isOther && props.other ? props.other.onSubmit : props.onSubmit)(value);
}
