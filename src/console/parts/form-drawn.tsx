// The form library with our validator and our look, in a file of its own that is loaded when a form is opened. Pages use `form.tsx`.
// Not by its index, which also loads what its tests need.
import Form from "@rjsf/core/lib/components/Form.js";
import getDefaultRegistry from "@rjsf/core/lib/getDefaultRegistry.js";
import type {
  BaseInputTemplateProps,
  FieldErrorProps,
  FieldTemplateProps,
  IconButtonProps,
  MultiSchemaFieldTemplateProps,
  TitleFieldProps,
} from "@rjsf/utils";
import { errorId } from "@rjsf/utils";
import { useId, useMemo } from "react";
import { misfitsAt } from "./form-problems.js";
import { type DrawnProps, Submit, submitted } from "./form-submit.js";
import { complete, treeOf, validatorOf } from "./form-validator.js";

/** A member that nobody filled in stays absent. */
const DEFAULTS = { emptyObjectFields: "skipEmptyDefaults", arrayMinItems: { populate: "requiredOnly" } } as const;

export default function DrawnForm(props: DrawnProps) {
  const { schema, judge, value, onChange, problems = [], at = "$" } = props;
  const id = useId();
  const validator = useMemo(() => validatorOf(judge), [judge]);
  const refused = useMemo(() => treeOf(misfitsAt(at, problems)), [at, problems]);
  return (
    <Form<unknown>
      schema={schema}
      validator={validator}
      formData={value}
      extraErrors={refused}
      templates={TEMPLATES}
      idPrefix={id}
      noHtml5Validate
      showErrorList={false}
      focusOnFirstError
      experimental_defaultFormStateBehavior={DEFAULTS}
      onChange={({ formData }) => onChange(formData)}
      // The library would write what does not fit to the browser's log.
      onError={() => undefined}
      onSubmit={({ formData }, event) => submitted(props, event, complete(schema, formData))}
    >
      <Submit {...props} />
    </Form>
  );
}

const {
  BaseInputTemplate: Input,
  FieldTemplate: Field,
  TitleFieldTemplate: Title,
} = getDefaultRegistry<unknown>().templates;

const MarkedInput = (props: BaseInputTemplateProps<unknown>) => (
  <Input {...props} aria-invalid={(props.rawErrors?.length ?? 0) > 0 || undefined} />
);

/** "Stays 1": the library says "Stays-1". */
function titleOf(id: string, title: string): string {
  const [, index] = /_(\d+)(?:__title)?$/.exec(id) ?? [];
  const suffix = `-${Number(index) + 1}`;
  return title.endsWith(suffix) ? `${title.slice(0, -suffix.length)} ${suffix.slice(1)}` : title;
}

const NamedField = (props: FieldTemplateProps<unknown>) => <Field {...props} label={titleOf(props.id, props.label)} />;

const NamedTitle = (props: TitleFieldProps<unknown>) => <Title {...props} title={titleOf(props.id, props.title)} />;

function Misfits({ errors = [], fieldPathId }: FieldErrorProps<unknown>) {
  if (errors.length === 0) return null;
  return (
    <ul id={errorId(fieldPathId)} className="misfit">
      {[...new Set(errors)].map((error) => (
        <li key={String(error)}>{error}</li>
      ))}
    </ul>
  );
}

const Alternatives = ({ selector, optionSchemaField }: MultiSchemaFieldTemplateProps<unknown>) => (
  <div className="alternatives">
    {/* biome-ignore lint/a11y/noLabelWithoutControl: the selector is one */}
    <label>Which of these {selector}</label>
    {optionSchemaField}
  </div>
);

const button = (text: string) =>
  function FormButton({ id, className, onClick, disabled }: IconButtonProps<unknown>) {
    return (
      <button type="button" id={id} className={className} onClick={onClick} disabled={disabled}>
        {text}
      </button>
    );
  };

const TEMPLATES = {
  BaseInputTemplate: MarkedInput,
  FieldErrorTemplate: Misfits,
  FieldTemplate: NamedField,
  TitleFieldTemplate: NamedTitle,
  MultiSchemaFieldTemplate: Alternatives,
  ButtonTemplates: {
    AddButton: button("Add"),
    RemoveButton: button("Remove"),
    MoveUpButton: button("Up"),
    MoveDownButton: button("Down"),
    CopyButton: button("Copy"),
    ClearButton: button("Clear"),
  },
};
