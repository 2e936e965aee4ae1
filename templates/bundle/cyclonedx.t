{
  "bomFormat": "CycloneDX",
  "specVersion": "1.6",
  "version": 1,
  "metadata": {
    "tools": {"components": [{"type": "application", "name": "attngen", "version": "${VERSION}"}]},
    "component": {
      "type": "library", "bom-ref": "${NAME}", "name": "${NAME}", "version": "${VERSION}",
      "licenses": [{"license": {"id": "MIT-0"}}],
      "properties": [{"name": "attngen:generator", "value": "${HASH}"}]
    }
  },
  "components": [
% for i in 0..ALL
    {"type": "library", "version": "${VERSION}",
      "bom-ref": "${symbol(i)}",
      "name": "${symbol(i)}",
      "description": "attngen emit --variant ${variant(i)}${CUDA and i >= KERNELS ? " --language cuda" : ""}",
      "licenses": [{"license": {"id": "MIT-0"}}],
      "hashes": [{"alg": "SHA-256", "content": "${digest(i)}"}],
      "properties": [{"name": "attngen:variant", "value": "${variant(i)}"}]},
% end
% for i in 0..FILES
    {"type": "file", "bom-ref": "file:${file(i)}", "name": "${file(i)}",
      "licenses": [{"license": {"id": "MIT-0"}}],
      "hashes": [{"alg": "SHA-256", "content": "${file_digest(i)}"}]}${i + 1 < FILES ? "," : ""}
% end
  ]
}
