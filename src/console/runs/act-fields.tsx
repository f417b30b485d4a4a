// The fields of an act: what a person may say about it. The service checks what they say.
import { JsonField } from "../parts/form-json.js";
import type { ActField, Params } from "./acts.js";

interface FieldsProps {
  readonly fields: readonly ActField[];
  readonly value: Params;
  readonly onChange: (value: Params) => void;
}

export const ActFields = ({ fields, value, onChange }: FieldsProps) => (
  <>
    {fields.map((field) => (
      <Field
        key={field.name}
        field={field}
        value={value[field.name]}
        onChange={(next) => onChange({ ...value, [field.name]: next })}
      />
    ))}
  </>
);

interface FieldProps {
  readonly field: ActField;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}

function Field({ field, value, onChange }: FieldProps) {
  const { kind, label, isRequired = false, isOn = false } = field;
  if (kind === "json") return <JsonField label={label} value={value} rows={4} onChange={onChange} />;
  if (kind === "flag")
    return (
      <label className="switch">
        <input
          type="checkbox"
          checked={(value as boolean) ?? isOn}
          onChange={({ target }) => onChange(target.checked)}
        />
        {label}
      </label>
    );
  return <PlainField {...{ kind, label, isRequired, value, onChange }} />;
}

interface PlainProps extends Omit<FieldProps, "field"> {
  readonly kind: "text" | "number";
  readonly label: string;
  readonly isRequired: boolean;
}

const PlainField = ({ kind, label, isRequired, value, onChange }: PlainProps) => (
  <label>
    {isRequired ? label : `${label} (optional)`}
    <input
      type={kind}
      required={isRequired}
      min={kind === "number" ? 1 : undefined}
      value={(value as string | number | undefined) ?? ""}
      onChange={({ target }) => onChange(kind === "number" ? numberOf(target.value) : target.value)}
    />
  </label>
);

const numberOf = (text: string) => (text === "" ? undefined : Number(text));
