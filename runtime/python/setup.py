"""The wheel's tag: any Python 3, this system's processor. All else is in pyproject.toml."""
from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel


class Binary(Distribution):
    def has_ext_modules(self):
        return True  # none, but libattn.so is a processor's


class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none") + super().get_tag()[2:]


setup(distclass=Binary, cmdclass={"bdist_wheel": Wheel})
