import { PageHead } from '../ui/basics';
export default function Overview() {
  return (
    <div class="page">
      <PageHead title="Overview" />
    </div>
  );
}
