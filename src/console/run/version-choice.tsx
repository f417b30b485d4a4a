// The published versions of a workflow, to choose one. Which of them a run can go on with, the service says.
import type { Workflow } from "../browser/resources.js";
import { useVersions } from "../browser/versions.js";

interface VersionProps {
  readonly workflowId: string;
  /** Empty: none is chosen. */
  readonly value: string;
  readonly onChange: (version: string) => void;
  /** What no choice means. */
  readonly none: string;
  /** It must be chosen, and this is not one of the choices. */
  readonly except?: number;
}

const MAX_LISTED = 500;

export function VersionChoice({ workflowId, value, onChange, none, except }: VersionProps) {
  const { data } = useVersions<Workflow>("workflows", workflowId, 0, MAX_LISTED);
  const versions = (data?.items ?? []).filter(({ version, published }) => published && version !== except);
  return (
    <div className="act-field">
      <label>
        Version
        <select value={value} required={except !== undefined} onChange={({ target }) => onChange(target.value)}>
          <option value="">{none}</option>
          {versions.map(({ version, name }) => (
            <option key={version} value={version}>
              {version}: {name}
            </option>
          ))}
        </select>
      </label>
      {data && versions.length === 0 && <p className="quiet">No other version of the workflow is published.</p>}
    </div>
  );
}
