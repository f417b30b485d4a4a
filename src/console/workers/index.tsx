export default function Page() {
  return <h1>workers index</h1>;
}
