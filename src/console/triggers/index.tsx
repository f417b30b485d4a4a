export default function Page() {
  return <h1>triggers index</h1>;
}
