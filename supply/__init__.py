"""What the project is made of besides its own code: checksums, licences, and a bill of materials.

python -m supply lock --index URL     writes requirements.lock from an index of packages
python -m supply verify REPORT        compares what pip has installed with it
python -m supply pages                writes docs/licences.md and sbom.cdx.json anew
"""
