// A filter of runs in words. It asks for nothing.
const textOf = (value: unknown) => (Array.isArray(value) ? value.join(", ") : String(value));

export function FilterText({ filter }: { filter: Readonly<Record<string, unknown>> }) {
  const filters = Object.entries(filter);
  if (filters.length === 0) return <>every run</>;
  return (
    <>
      {filters.map(([name, value]) => (
        <code key={name} className="filter">
          {name}={textOf(value)}
        </code>
      ))}
    </>
  );
}
