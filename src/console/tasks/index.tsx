export default function Page() {
  return <h1>tasks index</h1>;
}
