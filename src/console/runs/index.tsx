export default function Page() {
  return <h1>runs index</h1>;
}
