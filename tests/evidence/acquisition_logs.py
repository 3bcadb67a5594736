"""What acquisition programs leave beside an image, written by hand in their real forms.

FTK Imager 3 and 4, Guymager 0.8, dc3dd 7.2.646, dcfldd 1.9.
"""

from __future__ import annotations

Sums = dict[str, str]  # hexadecimal digits by algorithm

_FTK = """\
Created By AccessData\u00ae FTK\u00ae Imager 4.5.0.3 

Case Information: 
Acquired using: ADI4.5.0.3
Case Number: 17
Evidence Number: 3
Unique description: a stick
Examiner: A. Examiner
Notes:  

--------------------------------------------------------------

Information for C:\\case\\{name}:

Physical Evidentiary Item (Source) Information:
[Device Info]
 Source Type: Physical
[Drive Geometry]
 Cylinders: 122
 Tracks per Cylinder: 255
 Sectors per Track: 63
 Bytes per Sector: 512
 Sector Count: 1,972,224
[Physical Drive Information]
 Drive Model: JetFlash Transcend 1GB USB Device
 Drive Serial Number: d41d8cd98f00b204e9800998ecf8427e
 Drive Interface Type: USB
 Removable drive: True
 Source data size: 963 MB
 Sector count:    1972224
[Computed Hashes]
 MD5 checksum:    {md5}
 SHA1 checksum:   {sha1}

Image Information:
 Acquisition started:   Tue May 20 21:25:16 2014
 Acquisition finished:  Tue May 20 21:26:59 2014
 Segment list:
  C:\\case\\{name}

Image Verification Results:
 Verification started:  Tue May 20 21:27:01 2014
 Verification finished: Tue May 20 21:27:12 2014
 MD5 checksum:    {md5} : verified
 SHA1 checksum:   {sha1} : verified
"""  # noqa: W291 -- as the program writes it

_GUYMAGER = """\
GUYMAGER ACQUISITION INFO FILE
==============================

Guymager
========

Version              : 0.8.13-1
Compilation timestamp: 2021-02-09-18.40.11 UTC
Compiled with        : gcc 10.2.1 20210110

Acquisition
===========

Linux device            : /dev/sdb
Device size             : 1009778688 (1.0GB)
Format                  : Linux dd raw image - file extension is .dd
Image path and file name: /case/{name}
Info  path and file name: /case/disk.info
Hash calculation        : MD5 and SHA-256
Source verification     : on
Image verification      : on

No bad sectors encountered during acquisition.
State: Finished successfully

MD5 hash                   : {md5}
MD5 hash verified source   : {verified_md5}
MD5 hash verified image    : {md5}
SHA1 hash                  : --
SHA1 hash verified source  : --
SHA1 hash verified image   : --
SHA256 hash                : {sha256}
SHA256 hash verified source: {sha256}
SHA256 hash verified image : {sha256}
Source verification OK. The device delivered the same data during acquisition and verification.
Image verification OK. The image contains exactly the data that was written.

Acquisition started : 2017-01-09 11:50:17 (ISO format YYYY-MM-DD HH:MM:SS)
Ended               : 2017-01-09 11:55:38 (0 hours, 5 minutes and 21 seconds)

Generated image files and their MD5 hashes
==========================================

{files}
"""
_NO_FILES = """\
No MD5 hashes available (configuration parameter CalcImageFileMD5 is off)
n/a                               disk.dd"""

_DC3DD = """\

dc3dd 7.2.646 started at 2022-10-01 15:56:42 -0400
compiled options:
command line: dc3dd if=/dev/sdb {option}={name} hash=md5 hash=sha256 log=disk.log
device size: 6144 sectors (probed),        3,145,728 bytes
sector size: 512 bytes (probed)
     3145728 bytes ( 3 M ) copied ( 100% ), 0.210521 s, 14 M/s                   
     3145728 bytes ( 3 M ) hashed ( 100% ), 0.000182 s, 16 G/s                   

input results for device `/dev/sdb':
   6144 sectors in
   0 bad sectors replaced by zeros
   {md5} (md5)
      a9679c471cc323dd64f3171105d1afdf, sectors 0 - 2047
      ad985b72e46e68145a3d9e332d561c51, sectors 2048 - 4095
   {sha256} (sha256)

output results for {kind} `{name}':
   6144 sectors out
   [ok] {md5} (md5)
      [ok] a9679c471cc323dd64f3171105d1afdf, sectors 0 - 2047, `{name}'
   [ok] {sha256} (sha256)

dc3dd completed at 2022-10-01 15:56:43 -0400

"""  # noqa: W291 -- as the program writes it

_DCFLDD = """\
0 - 1048576: a9679c471cc323dd64f3171105d1afdf
1048576 - 2097152: ad985b72e46e68145a3d9e332d561c51
2097152 - 3145728: bd35f127b811baa437b6c2b675fbba58

Total (md5): {md5}

Total (sha256): {sha256}
"""


def ftk_imager(sums: Sums, name: str = "disk.001") -> bytes:
    """`NAME.txt`: with CRLF, in UTF-8."""
    return _FTK.format(name=name, **sums).replace("\n", "\r\n").encode()


def guymager(sums: Sums, verified_md5: str = "", files: str = "", name: str = "disk.dd") -> bytes:
    """`NAME.info`.

    Args:
        sums: of the disk.
        verified_md5: of the second reading of the source, if that is another.
        files: lines of the generated files with their MD5.
        name: of the image.
    """
    listed = "MD5                               Image file\n" + files if files else _NO_FILES
    verified = verified_md5 or sums["md5"]
    return _GUYMAGER.format(name=name, verified_md5=verified, files=listed, **sums).encode()


def dc3dd(sums: Sums, name: str = "disk.dd") -> bytes:
    """One run in a log; later runs are appended."""
    is_split = name.endswith((".000", ".001"))
    option, kind = ("hofs", "files") if is_split else ("hof", "file")
    return _DC3DD.format(name=name, option=option, kind=kind, **sums).encode()


def dcfldd(sums: Sums) -> bytes:
    """A log of hashes with windows."""
    return _DCFLDD.format(**sums).encode()
