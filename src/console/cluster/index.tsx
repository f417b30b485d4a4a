export default function Page() {
  return <h1>cluster index</h1>;
}
