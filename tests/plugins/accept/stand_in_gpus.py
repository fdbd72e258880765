"""A stand-in for nvidia-smi that prints healthy H100 GPUs, with the faults that a test asks for. No GPU is real."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

GPU = """\
<gpu id="00000000:{bus}:00.0">
  <product_name>NVIDIA H100 80GB HBM3</product_name>
  <persistence_mode>Enabled</persistence_mode>
  <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
  <uuid>GPU-00000000-0000-0000-0000-00000000{node:02}{bus}</uuid>
  <vbios_version>96.00.89.00.01</vbios_version>
  <gpu_recovery_action>None</gpu_recovery_action>
  <pci>
    <pci_gpu_link_info>
      <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen>
        <max_device_link_gen>5</max_device_link_gen></pcie_gen>
      <link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths>
    </pci_gpu_link_info>
    <replay_counter>0</replay_counter>
  </pci>
  <clocks_event_reasons>
    <clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
    <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
    <clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
    <clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
    <clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
  </clocks_event_reasons>
  <fb_memory_usage><total>81559 MiB</total><reserved>551 MiB</reserved><used>4 MiB</used>
    <free>81005 MiB</free></fb_memory_usage>
  <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
  <ecc_errors>
    <volatile><sram_correctable>0</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
      <sram_uncorrectable_secded>0</sram_uncorrectable_secded><dram_correctable>2</dram_correctable>
      <dram_uncorrectable>0</dram_uncorrectable></volatile>
    <aggregate><dram_uncorrectable>1</dram_uncorrectable></aggregate>
    <channel_repair_pending>No</channel_repair_pending>
  </ecc_errors>
  <remapped_rows><remapped_row_corr>1</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>
    <remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
  <temperature><gpu_temp>31 C</gpu_temp></temperature>
  <gpu_power_readings><current_power_limit>700.00 W</current_power_limit>
    <default_power_limit>700.00 W</default_power_limit></gpu_power_readings>
  <applications_clocks><graphics_clock>1980 MHz</graphics_clock></applications_clocks>
  <default_applications_clocks><graphics_clock>1980 MHz</graphics_clock></default_applications_clocks>
  <max_clocks><sm_clock>1980 MHz</sm_clock></max_clocks>
  <fabric><state>Completed</state><status>Success</status><health><summary>N/A</summary></health></fabric>
  <processes></processes>
</gpu>
"""

PROGRAM = """\
#!{python}
# stands in for nvidia-smi: no GPU is real
import json, os, sys
faults = json.loads({faults!r}).get(os.environ.get("SLURMD_NODENAME", ""), {{}})
sys.path.insert(0, {place!r})
from stand_in_gpus import links, smi
if "fails" in faults:
    sys.exit(faults["fails"])
number = int(os.environ.get("SLURM_NODEID", "0"))
print(links(faults, "-e" in sys.argv) if "nvlink" in sys.argv else smi(faults, number))
"""


def smi(faults: Mapping[str, str] | None = None, node: int = 0) -> str:
    """What `nvidia-smi -q -x` prints; `faults` are texts of the last GPU, or `driver` and `count`."""
    texts = dict(faults or {})
    count, driver = int(texts.pop("count", "8")), texts.pop("driver", "580.95.05")
    gpus = [GPU.format(bus=10 + place, node=node) for place in range(count)]
    for healthy, broken in texts.items():
        gpus[-1] = gpus[-1].replace(healthy, broken, 1)
    head = f"<driver_version>{driver}</driver_version><cuda_version>13.0</cuda_version>"
    return f'<?xml version="1.0" ?><nvidia_smi_log>{head}{"".join(gpus)}</nvidia_smi_log>'


def links(faults: Mapping[str, str], errors: bool) -> str:
    """What `nvidia-smi nvlink -s` or `-e` prints of one GPU with 18 links; the fault `link` is one of them."""
    lines = ["GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)"]
    for link in range(18):
        if errors:
            lines += [f"\t Link {link}: {name} Errors: 0" for name in ("Replay", "Recovery", "CRC")]
        else:
            lines.append(f"\t Link {link}: {faults.get('link', '26.562 GB/s') if link == 7 else '26.562 GB/s'}")
    return "\n".join(lines)


def write(folder: Path, python: str, faults: Mapping[str, Mapping[str, str]] | None = None) -> Path:
    """Write the program into a folder for PATH; `faults` by the name of the node."""
    folder.mkdir(parents=True, exist_ok=True)
    place = str(Path(__file__).parent)
    program = folder / "nvidia-smi"
    program.write_text(PROGRAM.format(python=python, faults=json.dumps(faults or {}), place=place))
    program.chmod(0o755)
    return folder
