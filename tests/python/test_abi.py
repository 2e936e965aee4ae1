"""The structs of attngen._c are those of runtime/attn.h: a C program prints the sizes and offsets that a compiler gives."""
import ctypes
import os
import re
import subprocess
import tempfile
import unittest

import attngen
from attngen import _c

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Abi(unittest.TestCase):
    def test_structs(self):
        lines = []
        for name, kind in _c.STRUCTS.items():
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            for field in (f[0].rstrip("_") for f in kind._fields_):  # from_ and in_ are words of Python without it
                member = f"((struct {name} *)0)->{field}"
                lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof(struct {name}, {field}), sizeof {member});')
        program = "#include <stdio.h>\n#include <attn.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
        with tempfile.TemporaryDirectory() as directory:
            source, binary = os.path.join(directory, "abi.c"), os.path.join(directory, "abi")
            with open(source, "w") as file:
                file.write(program)
            subprocess.run([os.environ.get("CC", "gcc"), "-I", os.path.join(ROOT, "runtime"), source, "-o", binary],
                           check=True)
            said = subprocess.run([binary], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
        expected = []
        for name, kind in _c.STRUCTS.items():
            expected.append(f"{name} {ctypes.sizeof(kind)}")
            for field, *_ in kind._fields_:
                member = getattr(kind, field)
                expected.append(f"{name}.{field.rstrip('_')} {member.offset} {member.size}")
        self.assertEqual(said.split("\n")[:-1], expected)

    def test_no_field_is_missing(self):
        """Each member that the header declares has its field, whatever padding would hide."""
        with open(os.path.join(ROOT, "runtime", "attn.h")) as file:
            header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for name, kind in _c.STRUCTS.items():
            body = re.search(r"struct " + name + r" \{(.*?)\n?\};", header, flags=re.S).group(1)
            members = []
            for declaration in body.split(";"):
                function = re.search(r"\(\*(\w+)\)", declaration)
                if function:
                    members.append(function.group(1))
                elif declaration.strip():
                    parts = declaration.split(",")
                    members += [re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", part).group(1) for part in parts]
            self.assertEqual(members, [field.rstrip("_") for field, *_ in kind._fields_])

    def test_numbers(self):
        """Enumerators by name."""
        with open(os.path.join(ROOT, "runtime", "attn.h")) as file:
            header = file.read()
        number = {name: int(value) for name, value in re.findall(r"\b(ATTN_[A-Z0-9_]+) = (\d+)", header)}
        for table, form in ((_c.DTYPES, "ATTN_{}"), (_c.ALIGNS, "ATTN_{}"), (_c.COMPILERS, "ATTN_{}"),
                            (_c.RIGORS, "ATTN_{}")):
            for name, value in table.items():
                self.assertEqual(number[form.format(name.upper().replace("-", "_"))], value)
        for name, value in _c.BIASES.items():
            self.assertEqual(number["ATTN_BIAS_" + name.upper() if name else "ATTN_NO_BIAS"], value)
        self.assertEqual([number["ATTN_" + s] for s in ("INVALID", "UNSUPPORTED", "NO_MEMORY", "FAILED")],
                         list(_c.STATUSES))
        version = re.findall(r"ATTN_VERSION_M\w+ (\d+)", header)
        self.assertEqual(attngen.__version__, ".".join(version))
        self.assertEqual(1000 * int(version[0]) + int(version[1]), _c.library().attn_version())


if __name__ == "__main__":
    unittest.main()
