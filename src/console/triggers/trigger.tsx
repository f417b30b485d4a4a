export default function Page() {
  return <h1>triggers trigger</h1>;
}
